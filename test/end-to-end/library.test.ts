/** The names in docs/library.md are exported. library.full.test.ts runs its examples. */
import { describe, expect, it } from 'vitest';
import * as library from '../../src/index.js';
import { examples, page } from './library-page.js';

describe('docs/library.md', () => {
  it('imports what the package exports in its examples', () => {
    const imports = examples.flatMap((code) => [
      ...code.matchAll(/^import \{([^}]*)\} from '@mistletoe-ai\/mistletoe';$/gm),
    ]);
    const named = imports.flatMap(([, list]) => list!.split(',').map((name) => name.trim())).filter(Boolean);
    expect(named.length).toBeGreaterThan(25);
    expect(named.filter((name) => !(name in library))).toEqual([]);
  });

  it('names functions that are there', () => {
    const [, table] = /\| command .*\n\| -+ .*\n((?:\|.*\n)+)/.exec(page)!;
    const named = [...table!.matchAll(/\| [^|]* \|([^|]*)\|/g)].flatMap(([, cell]) =>
      [...cell!.matchAll(/`(\w+)`/g)].map(([, name]) => name!),
    );
    expect(named.length).toBeGreaterThan(15);
    expect(named.filter((name) => !(name in library))).toEqual([]);
  });
});
