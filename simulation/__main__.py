"""python -m simulation --seed 7 --minutes 5"""

from simulation.command import main

main()
