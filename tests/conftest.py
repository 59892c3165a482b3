"""What all tests share: the modules beside this file can be imported by every test."""
