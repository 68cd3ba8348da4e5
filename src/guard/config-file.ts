/**
 * Reads the settings from a YAML file and from flags, which win. Errors name file, line and column, or the flag. Unknown
 * keys are rejected: a misspelled limit would be no limit.
 */
import type { Document } from 'yaml';
import { isCollection, isMap, isNode, isScalar, LineCounter, parseDocument, stringify } from 'yaml';
import type { z } from 'zod';
import { MistletoeError } from '../core/errors.js';
import type { GivenConfiguration, GuardConfiguration } from './guard-config.js';
import { guardSchema, showConfiguration } from './guard-config.js';

export interface FlagValue {
  /** As typed: --plain-upstream. */
  readonly flag: string;
  /** Its place in the settings. */
  readonly path: readonly string[];
  readonly value: unknown;
}

export interface ConfigurationSources {
  readonly file?: { readonly name: string; readonly text: string } | undefined;
  readonly flags?: readonly FlagValue[];
  /** Told about settings of version 0.2 that have another name now, or no effect. */
  readonly onNotice?: (message: string) => void;
}

type Tree = Record<string, unknown>;

export function readConfiguration(sources: ConfigurationSources = {}): GuardConfiguration {
  const { file, flags = [], onNotice } = sources;
  const parsed = file === undefined ? undefined : parseFile(file);
  const tree = parsed?.tree ?? {};
  for (const change of updateOldSettings(tree)) onNotice?.(`${file!.name}: ${change}`);
  for (const { path, value } of flags) set(tree, path, value);
  return check(tree, flags, parsed);
}

/**
 * The settings of a file, for programs.
 * @example configureGuard({ upstream: 'http://127.0.0.1:8000', timeouts: { idle: '2m' } }).timeouts.idle // 120000
 */
export function configureGuard(settings: GivenConfiguration): GuardConfiguration {
  return check(settings, [], undefined);
}

function check(tree: unknown, flags: readonly FlagValue[], file: ParsedFile | undefined): GuardConfiguration {
  const result = guardSchema.safeParse(tree);
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  throw describeIssue(issue!, flags, file);
}

/** In the format of a file. */
export function writeConfiguration(configuration: GuardConfiguration): string {
  return stringify(showConfiguration(configuration) satisfies GivenConfiguration);
}

interface ParsedFile {
  readonly name: string;
  readonly tree: Tree;
  readonly document: Document;
  readonly lines: LineCounter;
}

const hint = 'See docs/guard.md for all settings; --show-config prints those in force.';

function parseFile({ name, text }: { readonly name: string; readonly text: string }): ParsedFile {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, uniqueKeys: true });
  const [error] = document.errors;
  if (error !== undefined) {
    const { line, col } = lines.linePos(error.pos[0]);
    throw new MistletoeError('usage', `${name}:${line}:${col}: ${error.message.split('\n')[0]!}`, { hint });
  }
  // Aliases can expand without bound.
  const tree: unknown = toValue(document, name);
  if (tree === null || tree === undefined) return { name, tree: {}, document, lines };
  if (typeof tree !== 'object' || Array.isArray(tree)) {
    throw new MistletoeError(
      'usage',
      `${name}:1:1: the file contains no settings; expected names and values`,
      {
        hint,
      },
    );
  }
  return { name, tree: tree as Tree, document, lines };
}

/** Settings of version 0.2 in today's names; says what was changed. */
function updateOldSettings(tree: Tree): readonly string[] {
  const changes: string[] = [];
  const { alarm, alert, mitigation } = tree;
  if (isTree(alarm) && alert === undefined) {
    const { falseAlarms, falseAlarmsPerWeek, ...others } = alarm;
    tree.alert = {
      ...others,
      ...(falseAlarms === undefined ? {} : { falseAlerts: falseAlarms }),
      ...(falseAlarmsPerWeek === undefined ? {} : { falseAlertsPerWeek: falseAlarmsPerWeek }),
    };
    delete tree.alarm;
    changes.push(
      'alarm.falseAlarms and alarm.falseAlarmsPerWeek are now alert.falseAlerts and alert.falseAlertsPerWeek',
    );
  }
  if (isTree(mitigation)) {
    for (const name of ['action', 'forEveryone'])
      if (mitigation[name] === 'tag') {
        mitigation[name] = 'observe';
        changes.push(`mitigation.${name}: tag no longer exists; observe is used`);
      }
    if ('from' in mitigation) {
      delete mitigation.from;
      changes.push('mitigation.from has no effect any more: measures apply to tenants');
    }
  }
  if ('askForPromptLogprobs' in tree) {
    delete tree.askForPromptLogprobs;
    changes.push('askForPromptLogprobs has no effect any more');
  }
  return changes;
}

const isTree = (value: unknown): value is Tree =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function toValue(document: Document, name: string): unknown {
  try {
    return document.toJS({ maxAliasCount: 0 });
  } catch (cause) {
    throw new MistletoeError('usage', `${name}: aliases are not supported`, { hint, cause });
  }
}

function set(tree: Tree, path: readonly string[], value: unknown): void {
  const [first, ...rest] = path;
  if (rest.length === 0) {
    tree[first!] = value;
    return;
  }
  const inner = tree[first!];
  // The schema rejects it.
  if (inner !== undefined && (typeof inner !== 'object' || inner === null)) return;
  set((tree[first!] ??= {}) as Tree, rest, value);
}

function describeIssue(
  issue: z.core.$ZodIssue,
  flags: readonly FlagValue[],
  file: ParsedFile | undefined,
): MistletoeError {
  const unknown = issue.code === 'unrecognized_keys' ? issue.keys[0]! : undefined;
  const path = [...issue.path.map(String), ...(unknown === undefined ? [] : [unknown])];
  const name = path.join('.');
  const given = flags.find((each) => each.path.join('.') === name);
  const text = describe(issue, name, unknown !== undefined);
  if (given !== undefined) return new MistletoeError('usage', `${given.flag}: ${text}`, { hint });
  const place = file === undefined ? '' : `${file.name}${findPlace(file, path)}: `;
  const isMissingUpstream = name === 'upstream' && issue.code === 'invalid_type';
  return new MistletoeError('usage', `${place}${text}`, {
    hint: isMissingUpstream ? 'Pass --upstream http://HOST:PORT, or set upstream: in the file.' : hint,
  });
}

function describe(issue: z.core.$ZodIssue, name: string, isUnknown: boolean): string {
  if (isUnknown) return `${name} is not a setting`;
  const message = issue.message
    .replace(/^Invalid (?:input|option): /, '')
    .replace(/^Too (?:small|big): /, '');
  return `${name === '' ? 'the configuration' : name}: ${message}`;
}

/** ":line:column" of the value, or of the innermost group that exists. */
function findPlace({ document, lines }: ParsedFile, path: readonly string[]): string {
  let node: unknown = document.contents;
  let offset = 0;
  for (const [depth, key] of path.entries()) {
    if (!isCollection(node)) break;
    if (isMap(node)) {
      const pair = node.items.find((item) => isScalar(item.key) && String(item.key.value) === key);
      if (pair === undefined) break;
      const isLast = depth === path.length - 1;
      const target = isLast && isNode(pair.value) ? pair.value : pair.key;
      if (isNode(target)) offset = target.range?.[0] ?? offset;
      node = pair.value;
    } else {
      node = node.get(Number(key), true);
      if (isNode(node)) offset = node.range?.[0] ?? offset;
    }
  }
  const { line, col } = lines.linePos(offset);
  return `:${line}:${col}`;
}
