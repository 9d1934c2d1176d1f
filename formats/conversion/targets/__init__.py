"""Places that a conversion writes into, a folder or a URL, and its state there until it is finished."""
