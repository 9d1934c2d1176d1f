"""The engine on NVIDIA DALI; nothing outside of this folder imports DALI."""
