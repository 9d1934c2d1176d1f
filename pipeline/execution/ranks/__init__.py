"""The rank of this process, and the number of ranks, as launchers and frameworks state them."""
