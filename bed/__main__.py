"""``python -m bed``."""

from bed.command import main

if __name__ == "__main__":
    main()
