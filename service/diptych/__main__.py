"""`python -m diptych` is `diptych`."""

import sys

from diptych.cli.main import main

sys.exit(main())
