from cs_input_analyzer.cli import main

raise SystemExit(main())
