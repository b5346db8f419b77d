"""`python -m headwater`: the same as the command `headwater`."""

from headwater.cli.main import main

if __name__ == "__main__":
    main()
