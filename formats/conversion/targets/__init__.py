"""Places that a conversion writes into, a folder or a URL, and what an unfinished one keeps there."""
