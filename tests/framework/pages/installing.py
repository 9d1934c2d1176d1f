# [the page]
