/**
 * The cost of each filter and method of the template library, charged before it runs. Filters and methods that are not in
 * these tables are refused, so new ones of a later library version must be reviewed first.
 */
import { itemUnits, maxListLength, type TemplateBudget, type Value, valueUnits } from './template-budget.js';

export interface Call {
  readonly operand: Value;
  readonly positional: readonly Value[];
  readonly named: ReadonlyMap<string, Value>;
}

export type Cost = (budget: TemplateBudget, call: Call) => void;

/** The library turns the replaced text into a regular expression. */
const maxReplacedLength = 1000;

const nothing: Cost = () => undefined;

const readText: Cost = (budget, { operand }) => {
  budget.spend(lengthOf(operand));
};

const copyItems: Cost = (budget, { operand }) => {
  budget.copyList(countOf(operand));
};

const makeItems: Cost = (budget, { operand }) => {
  budget.makeList(3 * countOf(operand));
};

/** Compares texts, in lower case, about n log n times. */
const sortItems: Cost = (budget, { operand, positional, named }) => {
  const count = countOf(operand);
  budget.copyList(count);
  const path = [...positional, ...named.values()].reduce((sum, value) => sum + lengthOf(value), 0);
  const comparison = 2 * budget.longestText(operand) + path + 1;
  budget.spend(count * Math.ceil(Math.log2(count + 2)) * comparison, itemUnits);
};

/** V8 hashes long texts by their length alone, so each may be compared with all others. */
const findUnique: Cost = (budget, { operand }) => {
  budget.copyList(countOf(operand));
  budget.spend(countOf(operand) * budget.longestText(operand));
};

const writeText: Cost = (budget, { operand }) => {
  budget.write(operand);
};

const joinItems: Cost = (budget, { operand, positional, named }) => {
  const separator = lengthOf(positional[0] ?? named.get('separator'));
  if (typeof operand.value === 'string') {
    budget.spend(operand.value.length, itemUnits);
    budget.makeText(operand.value.length * (separator + 1));
  } else budget.write(operand, { separator });
};

const writeJson: Cost = (budget, { operand, named }) => {
  const separators = named.get('separators')?.value;
  const separator = Array.isArray(separators)
    ? (separators as readonly Value[]).reduce((sum, each) => sum + lengthOf(each), 0)
    : 2;
  budget.makeText(lengthOf(operand));
  budget.write(operand, { separator, indent: numberOf(named.get('indent')) ?? 0 });
};

const indentLines: Cost = (budget, { operand, positional, named }) => {
  const width = Math.abs(numberOf(positional[0] ?? named.get('width')) ?? 4);
  const lines = countOccurrences(budget, operand, '\n') + 1;
  budget.makeText(lengthOf(operand) + lines * width);
};

const replaceText: Cost = (budget, { operand, positional: [before, after] }) => {
  if (typeof before?.value !== 'string' || typeof after?.value !== 'string') return;
  if (before.value.length > maxReplacedLength)
    throw new Error(
      `it replaces a text of ${before.value.length} characters; at most ${maxReplacedLength} are allowed`,
    );
  const found = before.value === '' ? lengthOf(operand) + 1 : countOccurrences(budget, operand, before.value);
  budget.makeText(lengthOf(operand) + found * after.value.length);
};

const splitText: Cost = (budget, { operand, positional: [separator] }) => {
  budget.spend(lengthOf(operand));
  const parts =
    typeof separator?.value === 'string' && separator.value !== ''
      ? countOccurrences(budget, operand, separator.value) + 1
      : countWords(operand);
  budget.makeList(parts);
};

const compareStart: Cost = (budget, { operand, positional: [start] }) => {
  budget.spend(lengthOf(operand));
  const starts = Array.isArray(start?.value) ? (start.value as readonly Value[]) : start ? [start] : [];
  for (const each of starts) budget.spend(1 + lengthOf(each), itemUnits);
};

const mapItems: Cost = (budget, { operand, named }) => {
  budget.copyList(countOf(operand));
  budget.spend(countOf(operand) * lengthOf(named.get('attribute')));
};

/** Tests of an attribute read at most its text. */
const selectItems: Cost = (budget, { operand, positional: [attribute] }) => {
  budget.copyList(countOf(operand));
  for (const item of Array.isArray(operand.value) ? (operand.value as readonly (Value | undefined)[]) : []) {
    const held = item?.value instanceof Map ? (item.value as ReadonlyMap<unknown, Value>) : undefined;
    budget.spend(lengthOf(held?.get(attribute?.value)));
  }
};

const lookUp: Cost = (budget, { positional: [key] }) => {
  budget.spend(lengthOf(key));
};

type NamedCosts = readonly (readonly [string, Cost])[];

const each = (names: string, cost: Cost): NamedCosts => names.split(' ').map((name) => [name, cost]);

const shared: NamedCosts = [
  ...each('upper lower title capitalize', readText),
  ['replace', replaceText],
  ['get', lookUp],
  ...each('items keys', makeItems),
  ['values', copyItems],
  ['dictsort', sortItems],
];

export const filterCosts: ReadonlyMap<string, Cost> = new Map([
  ...shared,
  ...each('safe first last length abs bool default list', nothing),
  ...each('int float trim', readText),
  ['string', writeText],
  ['tojson', writeJson],
  ['join', joinItems],
  ['indent', indentLines],
  ['reverse', copyItems],
  ['sort', sortItems],
  ['unique', findUnique],
  ['map', mapItems],
  ...each('selectattr rejectattr', selectItems),
]);

export const methodCosts: ReadonlyMap<string, Cost> = new Map([
  ...shared,
  ...each('strip lstrip rstrip', readText),
  ...each('startswith endswith', compareStart),
  ['split', splitText],
]);

/** `namespace()` takes pairs, and iterates over the letters of a text in place of a pair. */
export const namespaceCost: Cost = (budget, { positional }) => {
  for (const argument of positional) {
    budget.makeList(countOf(argument));
    budget.spend(countOf(argument) * budget.longestText(argument), valueUnits);
  }
};

/** A binary operator between two values, other than `and` and `or`. */
export function chargeOperator(budget: TemplateBudget, operator: string, left: Value, right: Value): void {
  const [leftIsList, rightIsList] = [Array.isArray(left.value), Array.isArray(right.value)];
  const isText = typeof left.value === 'string' || typeof right.value === 'string';
  if (leftIsList && rightIsList && operator === '+') budget.copyList(countOf(left) + countOf(right));
  else if (operator === '~' || (operator === '+' && isText))
    budget.joinTexts(budget.write(left), budget.write(right));
  else if (leftIsList !== rightIsList && (operator === '==' || operator === '!='))
    budget.write(leftIsList ? left : right); // JavaScript writes a list out to compare it with something else
  else if (!rightIsList && operator.endsWith('in')) budget.search(lengthOf(right), lengthOf(left));
  else budget.spend(Math.min(lengthOf(left), lengthOf(right)));
  // For every operator, the library searches a list on the right for the left value.
  if (rightIsList) chargeMembership(budget, left, right);
}

/** Texts of equal length are compared letter by letter. */
function chargeMembership(budget: TemplateBudget, item: Value, list: Value): void {
  budget.spend(countOf(list), itemUnits);
  const length = lengthOf(item);
  if (length === 0) return;
  const alike = (list.value as readonly Value[]).filter((each) => lengthOf(each) === length).length;
  budget.spend(length * alike);
}

function countOccurrences(budget: TemplateBudget, { value: text }: Value, part: string): number {
  if (typeof text !== 'string') return 0;
  budget.search(text.length, part.length);
  let count = 0;
  for (let at = text.indexOf(part); at >= 0; at = text.indexOf(part, at + part.length)) count += 1;
  return count;
}

function countWords({ value: text }: Value): number {
  if (typeof text !== 'string') return 0;
  let count = 0;
  for (const words = text.matchAll(/\S+/g); words.next().done !== true;)
    if ((count += 1) > maxListLength) break;
  return count;
}

export function lengthOf(value: Value | undefined): number {
  return typeof value?.value === 'string' ? value.value.length : 0;
}

export function countOf({ value }: Value): number {
  return Array.isArray(value) ? value.length : value instanceof Map ? value.size : 0;
}

function numberOf(value: Value | undefined): number | undefined {
  return typeof value?.value === 'number' ? value.value : undefined;
}
