"""Sources of boxes in tables and lists: Open Images, CrowdHuman, and MOTChallenge's sequences."""
