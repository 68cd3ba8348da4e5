import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve, sep } from 'node:path';
import { describe, expect, it } from 'vitest';

// The house: a room imports only from rooms below it. Rooms on one line may not import each other.
const floors: readonly (readonly string[])[] = [
  ['core'],
  ['graph'],
  ['runtime'],
  ['checkpoint'],
  ['text'],
  ['model'],
  ['draft'],
  ['decode'],
  ['measure'],
  ['runs'],
  ['audit'],
  ['train'],
  ['report'],
  ['guard'],
  ['serve', 'dashboard'],
  ['cli'],
];
const source = resolve(import.meta.dirname, '../src');

function listFiles(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    return entry.isDirectory() ? listFiles(path) : /\.[jt]s$/.test(entry.name) ? [path] : [];
  });
}

const files = listFiles(source);
const roomOf = (path: string): string => relative(source, path).split(sep)[0] ?? '';
const floorOf = (room: string): number => floors.findIndex((rooms) => rooms.includes(room));

function importsOf(path: string): string[] {
  const text = readFileSync(path, 'utf8');
  const specifiers = [...text.matchAll(/(?:from|import)\s*\(?\s*'(\.[^']+)'/g)].map(
    (match) => match[1] ?? '',
  );
  return specifiers.map((specifier) => resolve(dirname(path), specifier));
}

/**
 * Groups of files that lead back to themselves, by Tarjan's strongly connected components. Every import counts: one of
 * types alone is gone at run time, but whoever reads the file still has to read the other first.
 */
function findCircles(imports: ReadonlyMap<string, readonly string[]>): string[][] {
  const order = new Map<string, number>();
  const lowest = new Map<string, number>();
  const open: string[] = [];
  const circles: string[][] = [];
  const visit = (file: string): void => {
    order.set(file, order.size);
    lowest.set(file, order.get(file)!);
    open.push(file);
    for (const next of imports.get(file) ?? []) {
      if (!order.has(next)) visit(next);
      if (open.includes(next)) lowest.set(file, Math.min(lowest.get(file)!, lowest.get(next)!));
    }
    if (lowest.get(file) !== order.get(file)) return;
    const group = open.splice(open.indexOf(file));
    if (group.length > 1 || imports.get(file)?.includes(file) === true) circles.push(group.sort());
  };
  for (const file of imports.keys()) if (!order.has(file)) visit(file);
  return circles;
}

const published = files.filter((file) => !file.endsWith('.test.ts'));

/** Pairs of neighbors, or of a folder and one below it, whose files import each other both ways. */
function findTwoWays(): readonly string[] {
  const pairs = new Set<string>();
  for (const file of published) {
    const from = folderOf(file);
    for (const target of importsOf(file)) {
      const to = folderOf(target);
      if (from === to || from === '' || to === '') continue;
      // The nearest folders in which the two differ.
      const [left, right] = [from.split('/'), to.split('/')];
      let shared = 0;
      while (shared < Math.min(left.length, right.length) && left[shared] === right[shared]) shared += 1;
      if (shared === 0) continue; // rooms have floors
      pairs.add(`${left.slice(0, shared + 1).join('/')} ${right.slice(0, shared + 1).join('/')}`);
    }
  }
  return [...pairs]
    .filter(
      (pair) => pairs.has(pair.split(' ').reverse().join(' ')) && pair.split(' ')[0]! < pair.split(' ')[1]!,
    )
    .sort();
}

const folderOf = (path: string): string => relative(source, dirname(path)).split(sep).join('/');

/** Only to shrink: sub-folders are layers, too. */
const knownTwoWays: readonly string[] = [
  'audit audit/arms',
  'audit audit/search',
  'audit audit/units',
  'audit/arms audit/search',
  'audit/arms audit/units',
  'checkpoint checkpoint/cache',
  'checkpoint checkpoint/gguf',
  'checkpoint checkpoint/safetensors',
  'checkpoint checkpoint/torch',
  'cli cli/audit',
  'cli cli/guard',
  'cli cli/train',
  'decode decode/policies',
  'draft draft/dflash',
  'draft draft/draft-model',
  'draft draft/eagle',
  'draft draft/fresh',
  'draft draft/hydra',
  'draft draft/joined',
  'draft draft/medusa',
  'draft draft/mtp',
  'draft draft/ngram',
  'draft draft/pard',
  'draft draft/reading',
  'graph graph/operations',
  'guard guard/engines',
  'guard guard/judge',
  'guard guard/metrics',
  'guard guard/proxy',
  'guard guard/records',
  'guard guard/state',
  'guard/actions guard/judge',
  'guard/judge guard/state',
  'model model/lanes',
  'runtime runtime/cuda',
  'runtime runtime/onnx',
  'runtime/cuda/driver runtime/cuda/kernels',
  'runtime/cuda/driver runtime/cuda/programs',
  'runtime/cuda/kernels runtime/cuda/programs',
  'train train/data',
  'train train/loop',
];

describe('the house', () => {
  it('has unions of strings instead of enums', () => {
    const declaration = /^\s*(?:export )?(?:const )?enum /m;
    expect(files.filter((file) => declaration.test(readFileSync(file, 'utf8')))).toEqual([]);
  });

  it('has only rooms that the plan knows', () => {
    const rooms = new Set(files.map(roomOf).filter((room) => !room.endsWith('.ts')));
    expect([...rooms].filter((room) => floorOf(room) < 0)).toEqual([]);
  });

  it('lets a room import only from rooms below it', () => {
    const violations = files.flatMap((file) =>
      importsOf(file)
        .filter((target) => {
          const from = roomOf(file);
          const to = roomOf(target);
          if (from.endsWith('.ts') || from === to) return false;
          return floorOf(to) >= floorOf(from);
        })
        .map((target) => `${relative(source, file)} imports ${relative(source, target)}`),
    );
    expect(violations).toEqual([]);
  });

  it('has folders that import each other both ways only where that is known', () => {
    expect(findTwoWays()).toEqual(knownTwoWays);
  });

  it('has no import that leads back to where it began', () => {
    const known = new Set(published);
    const toSource = (path: string): string => {
      const typed = path.replace(/\.js$/, '.ts');
      return known.has(typed) ? typed : path;
    };
    const imports = new Map(published.map((file) => [file, importsOf(file).map(toSource)]));
    expect([...imports.values()].flat().filter((file) => !known.has(file))).toEqual([]);
    const circles = findCircles(imports);
    expect(circles.map((circle) => circle.map((file) => relative(source, file)))).toEqual([]);
  });

  it('would see a circle', () => {
    const imports = { a: ['b'], b: ['c', 'd'], c: ['e'], d: ['b'], e: [], f: ['f'], g: ['a', 'f'] };
    expect(findCircles(new Map(Object.entries(imports)))).toEqual([['b', 'd'], ['f']]);
  });

  it('writes files in one place, which follows no planted links', () => {
    const writing =
      /\b(?:writeFile|appendFile|copyFile|mkdir|mkdtemp|truncate|cp)(?:Sync)?\b[^}]*\} from 'node:fs/;
    const others = files.filter((file) => {
      const imports = readFileSync(file, 'utf8')
        .split(';')
        .filter((line) => writing.test(line));
      return imports.length > 0 && !file.endsWith('.test.ts') && !file.endsWith('core/durable-files.ts');
    });
    expect(others).toEqual([]);
  });

  it('builds every schema from core/schema.ts, whose lists and records end at the first fault', () => {
    const published = files.filter((file) => !file.endsWith('.test.ts'));
    const importers = published.filter((file) => /from 'zod(?:\/|')/.test(readFileSync(file, 'utf8')));
    expect(importers.map((file) => relative(source, file))).toEqual([join('core', 'schema.ts')]);
    // These collect the faults of all their items.
    const unbounded =
      /\.array\(\)|\bz\s*\.(?:set|map|lazy|partialRecord|looseRecord)\(|\.(?:catchall|rest)\(/;
    const users = published.filter((file) => unbounded.test(readFileSync(file, 'utf8')));
    expect(users.map((file) => relative(source, file))).toEqual([]);
  });

  it('keeps index.ts at the top only, and no utils.ts', () => {
    const names = files.map((file) => relative(source, file));
    expect(names.filter((name) => /(^|\/)utils?\.ts$/.test(name))).toEqual([]);
    expect(names.filter((name) => name.endsWith('/index.ts'))).toEqual([]);
  });

  it('keeps files short enough to read', () => {
    const long = files.filter((file) => readFileSync(file, 'utf8').split('\n').length > 400);
    expect(long.map((file) => relative(source, file))).toEqual([]);
  });
});
