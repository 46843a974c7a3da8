"""`watch`: a verdict at every save, from a zygote and suites that stay warm."""
