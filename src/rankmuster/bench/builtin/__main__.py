"""`python -m rankmuster.bench.builtin --orders JSON`: one rank."""

from rankmuster.bench.builtin.worker import main

if __name__ == "__main__":
    main()
