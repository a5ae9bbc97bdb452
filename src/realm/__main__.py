"""`python -m realm`, which is also how a launcher starts several processes: `torchrun ... -m realm train ...`."""

from realm.cli.entry import main

if __name__ == "__main__":
    main()
