/** Files named `x.tiers.test.ts` run in both tiers and divide their cases here: each case runs in exactly one. */
import { inject } from 'vitest';

declare module 'vitest' {
  interface ProvidedContext {
    readonly tier: 'quick' | 'full';
  }
}

export const isFullTier = inject('tier') === 'full';

export function casesOfTier<Case>(cases: readonly Case[], isQuick: (each: Case) => boolean): readonly Case[] {
  return cases.filter((each) => isQuick(each) !== isFullTier);
}

/** For what has a size instead of cases, such as the number of draws. */
export function byTier<Value>(sizes: { readonly quick: Value; readonly full: Value }): Value {
  return isFullTier ? sizes.full : sizes.quick;
}
