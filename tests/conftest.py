"""What all tests share: the modules beside this file can be imported by every test; a property has no time limit."""

from hypothesis import HealthCheck, settings

# hypothesis' own limit is 200 ms an example, which a machine that stalls takes for any.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")
