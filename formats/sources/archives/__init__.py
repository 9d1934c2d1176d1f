"""Sources whose images lie in archives, and the names of archives as users write them."""
