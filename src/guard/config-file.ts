/** Reads the settings from a YAML file and from flags, which win. Errors name file, line and column, or the flag. */
import { isNode, stringify } from 'yaml';
import * as z from '../core/schema.js';
import { MistletoeError } from '../core/errors.js';
import { parseYaml, placeOf, type YamlText } from '../core/yaml-text.js';
import { type GivenConfiguration, type GuardConfiguration, guardSchema } from './guard-config.js';

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
  /** Called for settings of version 0.2 that have another name now, or no effect. */
  readonly onNotice?: (message: string) => void;
}

type Tree = Record<string, unknown>;

interface ParsedFile extends Omit<YamlText, 'contents'> {
  readonly name: string;
  readonly tree: Tree;
}

const hint = 'See docs/guard.md for all settings; --show-config prints those in force.';

export function readConfiguration(sources: ConfigurationSources = {}): GuardConfiguration {
  const { file, flags = [], onNotice } = sources;
  const parsed = file && parseFile(file);
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

export function writeConfiguration(configuration: GuardConfiguration): string {
  return stringify(z.encode(guardSchema, configuration));
}

function check(tree: unknown, flags: readonly FlagValue[], file: ParsedFile | undefined): GuardConfiguration {
  const result = guardSchema.safeParse(tree);
  if (result.success) return result.data;
  throw describeIssue(result.error.issues[0]!, flags, file);
}

function parseFile({ name, text }: { readonly name: string; readonly text: string }): ParsedFile {
  const { contents, ...places } = parseYaml(text, name, hint);
  const tree = contents ?? {};
  if (isTree(tree)) return { name, tree, ...places };
  throw new MistletoeError('usage', `${name}:1:1: the file contains no settings; expected names and values`, {
    hint,
  });
}

/** Settings of version 0.2 in today's names; returns what was changed. */
function updateOldSettings(tree: Tree): readonly string[] {
  const changes: string[] = [];
  const rename = (group: unknown, before: string, after?: string): void => {
    if (!isTree(group) || !(before in group)) return;
    if (after !== undefined) group[after] ??= group[before];
    Reflect.deleteProperty(group, before);
    changes.push(after === undefined ? `${before} no longer has an effect` : `${before} is now ${after}`);
  };
  rename(tree, 'alarm', 'alert');
  rename(tree.alert, 'falseAlarms', 'falseAlerts');
  rename(tree.alert, 'falseAlarmsPerWeek', 'falseAlertsPerWeek');
  rename(tree.mitigation, 'from');
  rename(tree, 'askForPromptLogprobs');
  const { mitigation } = tree;
  for (const name of ['action', 'forEveryone']) {
    if (!isTree(mitigation) || mitigation[name] !== 'tag') continue;
    mitigation[name] = 'observe';
    changes.push(`mitigation.${name}: tag is now observe`);
  }
  return changes;
}

const isTree = (value: unknown): value is Tree =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Values of groups are merged. The schema rejects what is no group. */
function set(tree: Tree, [first, ...rest]: readonly string[], value: unknown): void {
  const known = tree[first!] ?? {};
  if (rest.length === 0) tree[first!] = isTree(value) && isTree(known) ? { ...known, ...value } : value;
  else {
    tree[first!] = known;
    if (isTree(known)) set(known, rest, value);
  }
}

function describeIssue(
  issue: z.core.$ZodIssue,
  flags: readonly FlagValue[],
  file: ParsedFile | undefined,
): MistletoeError {
  const unknown = issue.code === 'unrecognized_keys' ? issue.keys.slice(0, 1) : [];
  const path = [...issue.path.map(String), ...unknown];
  const name = path.join('.');
  const message = issue.message.replace(/^(?:Invalid (?:input|option)|Too (?:small|big)): /, '');
  const text = unknown.length > 0 ? `${name} is not a setting` : `${name || 'the configuration'}: ${message}`;
  const given = flags.find((each) => `${name}.`.startsWith(`${each.path.join('.')}.`));
  const place = given !== undefined ? `${given.flag}: ` : file && `${file.name}${findPlace(file, path)}: `;
  const isMissingUpstream = name === 'upstream' && issue.code === 'invalid_type';
  return new MistletoeError('usage', `${place ?? ''}${text}`, {
    hint: isMissingUpstream ? 'Pass --upstream http://HOST:PORT, or set upstream: in the file.' : hint,
  });
}

/** ":line:column" of the value, or of the innermost group that exists. */
function findPlace({ document, lines }: ParsedFile, path: readonly string[]): string {
  for (let depth = path.length; depth >= 0; depth--) {
    const node: unknown = document.getIn(path.slice(0, depth), true);
    if (isNode(node)) return placeOf(lines, node.range?.[0] ?? 0);
  }
  return ':1:1';
}
