"""Datasets and sources that lie elsewhere: object stores, web servers, network file systems."""
