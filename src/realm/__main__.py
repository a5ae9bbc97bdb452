"""`python -m realm`, which is also how a launcher starts several processes: `torchrun ... -m realm train ...`."""

from realm.cli.main import main

main()
