/**
 * Published static trees, one digit per rank and one line per depth: `021` is the best token, then the third best,
 * then the second best. The Medusa trees (arXiv 2401.10774, medusa_choices.py) have 63 nodes; mc_sim_7b_63 is the one
 * used without a tree fitted to the target, by Medusa and by Hydra. EAGLE's tree of 25 nodes (arXiv 2401.15077,
 * choices.py) is also called mc_sim_7b_63 by its authors; here it has a name of its own.
 */
export const staticTrees = {
  mc_sim_7b_63: [
    '0 1 2 3 4 5 6 7 8 9',
    '00 01 02 03 04 05 06 07 08 09 10 11 12 13 14 15 16 20 21 22 30 31 40 50 60 70 80 90',
    '000 001 002 003 004 005 006 007 008 009 010 011 012 020 021 030 040 050 060 070 100 101 200',
    '0000 0001',
  ],
  vicuna_7b_stage2: [
    '0 1 2 3 4 5 6 7 8 9',
    '00 01 02 03 04 05 06 07 08 09 10 11 12 13 14 20 21 30 31 40 50 60 70',
    '000 001 002 003 004 005 006 007 008 010 011 012 013 020 021 030 040 050 100 101 102 110 200',
    '0000 0001 0002 0003 0010 0020 0100',
  ],
  vicuna_13b_stage2: [
    '0 1 2 3 4 5 6 7 8 9',
    '00 01 02 03 04 05 06 07 08 09 10 11 12 13 20 21 30 40 50',
    '000 001 002 003 004 005 006 007 008 009 010 011 012 013 020 021 030 040 050 100 101 102 110 200 300',
    '0000 0001 0002 0003 0010 0011 0020 0100 1000',
  ],
  eagle_25: [
    '0 1 2 3',
    '00 01 02 10 11 20 21 30',
    '000 001 002 010 011 020 021 100',
    '0000 0001 0002',
    '00000 00001',
  ],
} as const satisfies Record<string, readonly string[]>;

export type StaticTreeName = keyof typeof staticTrees;
