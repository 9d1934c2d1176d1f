"""Results of benchmarks: as data, tables and pictures, with the machine and the goals."""
