from purerec.cli import main

main()
