/** The names in docs/library.md are exported. library.full.test.ts runs its examples. */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
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

  it('explains every name the package exports, and no other', () => {
    const source = readFileSync(resolve(import.meta.dirname, '../../src/index.ts'), 'utf8');
    const exported = [...source.matchAll(/^export (?:type )?\{([^}]*)\}/gm)].flatMap(([, list]) =>
      list!
        .split(',')
        .map((name) =>
          name
            .trim()
            .replace(/^type /, '')
            .split(' as ')
            .at(-1)!,
        )
        .filter((name) => name !== ''),
    );
    const [, section] = page.split('## All names');
    const explained = [...section!.matchAll(/`(\w+)`(?=[^|]*\|[^|]*\|$)/gm)].map(([, name]) => name!);
    expect(exported.length).toBeLessThan(100);
    expect(explained.filter((name) => exported.includes(name)).sort()).toEqual([...exported].sort());
  });
});
