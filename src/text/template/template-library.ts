/** The parts of the template library that its declarations keep to themselves. */
import * as jinja from '@huggingface/jinja';
import type { Value } from './template-budget.js';

export interface Scope {
  set(name: string, value: unknown): unknown;
}

export interface Node {
  readonly type: string;
  readonly value?: unknown;
  readonly operator?: { readonly value: string } | undefined;
  readonly left?: Node | undefined;
  readonly right?: Node | undefined;
  readonly object?: Node | undefined;
  readonly property?: Node | undefined;
  readonly computed?: boolean | undefined;
  readonly operand?: Node | undefined;
  readonly callee?: Node | undefined;
  readonly args?: readonly Node[] | undefined;
  readonly iterable?: Node | undefined;
  readonly lhs?: Node | undefined;
  readonly body?: readonly Node[] | undefined;
}

/** An operand that was evaluated already; the library does not know it. */
export interface Constant extends Node {
  readonly type: 'Constant';
  readonly constant: Value;
}

export type Arguments = readonly [positional: readonly Value[], named: ReadonlyMap<string, Value>];

/** The package's declarations name files without an extension, which ES modules do not find. */
export const library = jinja as unknown as {
  readonly Environment: new () => Scope;
  readonly Interpreter: new (scope: Scope) => {
    run(program: unknown): Value;
    evaluate(node: Node | undefined, scope: Scope): Value | undefined;
    evaluateIdentifier(node: Node, scope: Scope): Value;
    evaluateBinaryExpression(node: Node, scope: Scope): Value;
    evaluateMemberExpression(node: Node, scope: Scope): Value;
    evaluateSliceExpression(object: Value, node: Node, scope: Scope): Value;
    evaluateTestExpression(node: Node, scope: Scope): Value;
    evaluateCallExpression(node: Node, scope: Scope): Value;
    evaluateArguments(nodes: readonly Node[], scope: Scope): Arguments;
    applyFilter(operand: Value, filter: Node, scope: Scope): Value;
    evaluateBlock(statements: readonly Node[], scope: Scope): Value;
    evaluateFor(node: Node, scope: Scope): Value;
    evaluateMacro(node: Node, scope: Scope): Value;
    evaluateCallStatement(node: Node, scope: Scope): Value;
  };
};
