/** What a gate of `audit` or `compare` comes to: its exit code, and the sentences behind it. */

/** 0: passed, 3: something could not be measured or compared, 4: too little to decide, 100: a limit was reached. */
export type GateCode = 0 | 3 | 4 | 100;

export const gateTitles: Readonly<Record<GateCode, string>> = {
  0: 'Gate passed.',
  3: 'Incomplete.',
  4: 'Not decided.',
  100: 'Gate failed.',
};

interface GateReasons {
  readonly failed: readonly string[];
  readonly missing: readonly string[];
  readonly undecided: readonly string[];
}

/** A failure outweighs what is missing, and that outweighs what is undecided: only a gate without any of them passes. */
export function settleGate({ failed, missing, undecided }: GateReasons): {
  readonly exitCode: GateCode;
  readonly failures: readonly string[];
} {
  return {
    exitCode: failed.length > 0 ? 100 : missing.length > 0 ? 3 : undecided.length > 0 ? 4 : 0,
    failures: [...failed, ...missing, ...undecided],
  };
}
