"""``python -m imagebuild``."""

from imagebuild.command import main

if __name__ == "__main__":
    main()
