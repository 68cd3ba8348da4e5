import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { MistletoeError } from '../../core/errors.js';
import {
  countDraftNodes,
  fitPolicy,
  formatDraftPolicy,
  levelsOf,
  loadTreeShape,
  parseDraftPolicy,
} from './policy.js';
import { shapeFromPaths } from './tree-shapes.js';

describe('parseDraftPolicy', () => {
  it.each([
    ['auto', { kind: 'auto' }],
    ['chain:4', { kind: 'chain', length: 4 }],
    ['tree:eagle_25', { kind: 'tree', source: { kind: 'named', name: 'eagle_25' } }],
    ['tree:C:/trees/mine.json', { kind: 'tree', source: { kind: 'file', path: 'C:/trees/mine.json' } }],
    ['dynamic:60,5,10', { kind: 'dynamic', total: 60, depth: 5, topK: 10 }],
  ])('reads %s, and writes it back', (text, policy) => {
    expect(parseDraftPolicy(text)).toEqual(policy);
    expect(formatDraftPolicy(parseDraftPolicy(text))).toBe(text);
  });

  it.each([
    '',
    'auto:1',
    'chain',
    'chain:',
    'chain:0',
    'chain:-1',
    'chain:2.5',
    'chain:4,5',
    'chain:four',
    'tree',
    'tree:toString',
    'tree:unknown',
    'dynamic:60',
    'dynamic:60,5',
    'dynamic:60,5,10,1',
    'dynamic:60,0,10',
    'beam:4',
  ])('refuses "%s" with examples', (text) => {
    let thrown: unknown;
    try {
      parseDraftPolicy(text);
    } catch (error) {
      thrown = error;
    }
    expect(thrown).toBeInstanceOf(MistletoeError);
    expect(thrown).toMatchObject({ code: 'usage', hint: expect.stringContaining('chain:4') as string });
    expect((thrown as MistletoeError).message).toContain(`"${text}"`);
  });

  it('refuses a dynamic tree of more nodes than it can have', () => {
    expect(parseDraftPolicy('dynamic:7,1,2')).toMatchObject({ total: 7 });
    expect(() => parseDraftPolicy('dynamic:8,1,2')).toThrow('a total from 2 to 7');
    expect(() => parseDraftPolicy('dynamic:1,1,2')).toThrow('a total from 2 to 7');
  });
});

describe('loadTreeShape', () => {
  it('reads named trees and files, and says which file is missing', () => {
    expect(loadTreeShape({ kind: 'named', name: 'eagle_25' }).parents).toHaveLength(26);
    const folder = mkdtempSync(join(tmpdir(), 'mistletoe-policy-'));
    try {
      const path = join(folder, 'mine.json');
      expect(() => loadTreeShape({ kind: 'file', path })).toThrow(`Cannot read the tree file ${path}`);
      writeFileSync(path, '[[0], [0, 0]]');
      expect(loadTreeShape({ kind: 'file', path })).toMatchObject({ name: path });
      expect(() => loadTreeShape({ kind: 'file', path }, { maximumDepth: 1 })).toThrow('is 2 deep');
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});

describe('fitPolicy', () => {
  it('cuts chains, shapes, and dynamic trees to a number of nodes', () => {
    const chain = { kind: 'chain', length: 5 } as const;
    expect(fitPolicy(chain, 5)).toBe(chain);
    expect(fitPolicy(chain, 3)).toEqual({ kind: 'chain', length: 3 });
    const dynamic = { kind: 'dynamic', total: 60, depth: 5, topK: 10 } as const;
    expect(countDraftNodes(fitPolicy(dynamic, 7))).toBe(7);
    const shape = shapeFromPaths('mine', [[0], [1], [0, 0], [0, 1], [0, 0, 0]]);
    const cut = fitPolicy({ kind: 'tree', shape }, 3);
    expect(cut).toEqual({ kind: 'tree', shape: { ...shapeFromPaths('mine', [[0], [1], [0, 0]]) } });
    expect(levelsOf(cut)).toBe(2);
  });
});
