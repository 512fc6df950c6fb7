"""``python -m kindcluster``."""

from kindcluster.command import main

if __name__ == "__main__":
    main()
