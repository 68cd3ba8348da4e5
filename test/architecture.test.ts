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
  ['audit'],
  ['report'],
  ['guard', 'train'],
  ['serve', 'dashboard'],
  ['cli'],
];
const source = resolve(import.meta.dirname, '../src');

function listFiles(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    return entry.isDirectory() ? listFiles(path) : entry.name.endsWith('.ts') ? [path] : [];
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

describe('the house', () => {
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
