"""Keywords and texts become one complete `Request`; every mistake is listed at once."""
