/** The YAML of a settings file: groups, lists, and values, with their places for error messages. */
import { type Document, isScalar, LineCounter, parseDocument, visit } from 'yaml';
import { MistletoeError } from './errors.js';
import { readTextFile } from './files.js';
import { fileLimits } from './limits.js';

export async function readSettingsFile(path: string): Promise<string> {
  const text = await readTextFile(path, fileLimits.settings);
  if (text !== undefined) return text;
  throw new MistletoeError('usage', `${path} does not exist.`, { hint: 'Check the path of --config.' });
}

export interface YamlText {
  /** null for an empty file. */
  readonly contents: unknown;
  readonly document: Document;
  readonly lines: LineCounter;
}

/**
 * Aliases and keys that are not texts are refused: aliases can name themselves or unfold without bound, and the parser
 * writes nested keys in exponential time.
 */
export function parseYaml(text: string, name: string, hint: string): YamlText {
  const lines = new LineCounter();
  const document = parseDocument(text, {
    version: '1.2',
    lineCounter: lines,
    prettyErrors: false,
    uniqueKeys: true,
  });
  const refuse = (offset: number, problem: string): never => {
    throw new MistletoeError('usage', `${name}${placeOf(lines, offset)}: ${problem}`, { hint });
  };
  const [error] = document.errors;
  if (error !== undefined) refuse(error.pos[0], `invalid YAML: ${error.message.split('\n')[0]!}`);
  visit(document, {
    Alias: (_, { range }) => refuse(range?.[0] ?? 0, 'aliases are not supported'),
    Pair(_, { key }) {
      if (!isScalar(key)) refuse(startOf(key), 'expected a name, not a list or a group');
    },
  });
  return { contents: document.toJS(), document, lines };
}

const startOf = (node: unknown): number =>
  (node as { readonly range?: readonly number[] | null } | null)?.range?.[0] ?? 0;

/** ":line:column" */
export function placeOf(lines: LineCounter, offset: number): string {
  const { line, col } = lines.linePos(offset);
  return `:${line}:${col}`;
}
