"""The measurements on a GPU: steps in processes of their own, whose results outlive a crash."""
