/** The dashboard and alert rules in examples/ parse, and use only metrics that are exported. */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { createRequest, createSampleState, createSpeculation } from './support/dashboard/sample-state.js';
import { GuardMetrics } from '../src/guard/metrics/guard-metrics.js';

const read = (name: string): string =>
  readFileSync(resolve(import.meta.dirname, '../examples/grafana', name), 'utf8');

/** Of the guard, by what it exports them as. */
const ours = {
  histogram: ['mistletoe_request_accepted_length'],
  other: [
    'mistletoe_spec_steps_total',
    'mistletoe_spec_draft_tokens_total',
    'mistletoe_spec_accepted_tokens_total',
    'mistletoe_alerts_total',
    'mistletoe_mitigations_total',
    'mistletoe_baseline_accepted_length',
    'mistletoe_requests_without_telemetry_total',
  ],
};
/** Of engines, as their own /metrics name them. */
const engines = [
  ...['vllm:', 'llamacpp:', 'lmdeploy:'].flatMap(
    (prefix) =>
    ['num_drafts', 'num_draft_tokens', 'num_accepted_tokens', 'num_accepted_tokens_per_pos'].map((name) => `${prefix}spec_decode_${name}_total`), // prettier-ignore
  ),
  'sglang:spec_accept_length',
  'trtllm_spec_decode_acceptance_length',
];
const known = new Set([
  ...ours.histogram.flatMap((name) => [`${name}_bucket`, `${name}_sum`, `${name}_count`]),
  ...ours.other,
  ...engines,
  'mistletoe_unattributed_share',
  'mistletoe_state_connected',
  'up', // of Prometheus itself
]);
const functions = [
  'sum',
  'max',
  'avg',
  'rate',
  'increase',
  'histogram_quantile',
  'vector',
  'absent',
  'label_values',
];
const words = new Set([...functions, 'by', 'on', 'group_left', 'and', 'or', 'unless', 'offset']);
const labels = new Set(['model', 'route', 'engine', 'cause', 'action', 'change', 'le', 'position', 'model_name', 'instance', 'job']); // prettier-ignore

interface Expression {
  readonly metrics: readonly string[];
  readonly labels: readonly string[];
}

/** Names of metrics stand outside of braces, brackets, quotes and the lists behind `by`. */
function readExpression(text: string): Expression {
  const listed = [...text.matchAll(/\b(?:by|on|group_left)\s*\(([^)]*)\)/g)].flatMap(([, names]) =>
    names!.split(','),
  );
  const matched = [...text.matchAll(/\{([^}]*)\}/g)].flatMap(([, inside]) => [...inside!.matchAll(/(\w+)\s*(?:=~|!~|!=|=)/g)].map(([, name]) => name!)); // prettier-ignore
  const bare = text
    .replace(/"(?:[^"\\]|\\.)*"/g, '')
    .replace(/\{[^}]*\}|\[[^\]]*\]/g, ' ')
    .replace(/\b(?:by|on|group_left)\s*\([^)]*\)/g, ' ')
    .replace(/\boffset\s+[$\w]+/g, ' ');
  const names = [...bare.matchAll(/[A-Za-z_:][\w:]*/g)].map(([name]) => name);
  return {
    metrics: names.filter((name) => !words.has(name)),
    labels: [...listed, ...matched].map((name) => name.trim()).filter((name) => name !== ''),
  };
}

function isBalanced(text: string): boolean {
  const open: string[] = [];
  for (const sign of text.replace(/"(?:[^"\\]|\\.)*"/g, '').replace(/[^()[\]{}]/g, '')) {
    if ('([{'.includes(sign)) open.push(sign);
    else if ('([{'.indexOf(open.pop() ?? '') !== ')]}'.indexOf(sign)) return false;
  }
  return open.length === 0;
}

function checkExpression(text: string): void {
  const expression = readExpression(text);
  expect(expression.metrics.length, text).toBeGreaterThan(0);
  expect(
    expression.metrics.filter((name) => !known.has(name)),
    text,
  ).toEqual([]);
  expect(
    expression.labels.filter((name) => !labels.has(name)),
    text,
  ).toEqual([]);
  expect(isBalanced(text), text).toBe(true);
}

interface Panel {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly description?: string;
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
  readonly targets?: readonly { readonly refId: string; readonly expr: string }[];
}
interface Dashboard {
  readonly id: null;
  readonly title: string;
  readonly panels: readonly Panel[];
  readonly templating: { readonly list: readonly { readonly name: string; readonly type: string; readonly definition?: string }[] }; // prettier-ignore
}

describe('the reading of expressions', () => {
  it('finds metrics and labels, and what is wrong', () => {
    const text = 'sum by (model) (rate(a_total{cause="b", x=~"c"}[5m] offset 1d)) / on () up';
    expect(readExpression(text)).toEqual({ metrics: ['a_total', 'up'], labels: ['model', 'cause', 'x'] });
    expect(isBalanced(text)).toBe(true);
    expect(isBalanced('sum(rate(a[5m)])')).toBe(false);
  });
});

describe('the guard', () => {
  it('exports what is named here, under these labels', () => {
    const metrics = new GuardMetrics();
    const told = createRequest(1, { speculation: createSpeculation(1, 2, 9) });
    const { alerts, actions, streams, requests } = createSampleState();
    for (const record of [told, createRequest(2)]) metrics.ended(record, requests[0]!.verdict);
    metrics.alerted(alerts[0]!);
    metrics.acted(actions[0]!);
    metrics.unattributed = 0.1;
    const state = { streams, running: 0, lostRecords: 0, tenants: 1, measures: 0, isStateConnected: true };
    const text = metrics.text(state);
    const samples = [...text.matchAll(/^([a-z_]+)(?:\{(.*)\})? \S+$/gm)];
    const exported = new Set(samples.map(([, name]) => name!));
    const named = [...known].filter((name) => name.startsWith('mistletoe_'));
    expect(named.filter((name) => !exported.has(name))).toEqual([]);
    const given = new Set(samples.flatMap(([, , inside]) => [...(inside ?? '').matchAll(/(\w+)="/g)].map(([, name]) => name!))); // prettier-ignore
    for (const name of ['model', 'route', 'engine', 'cause', 'action', 'change', 'le'])
      expect(given).toContain(name);
  });
});

describe('the Grafana dashboard', () => {
  const text = read('mistletoe.json');
  const dashboard = JSON.parse(text) as Dashboard;
  const expressions = dashboard.panels.flatMap(({ targets }) => targets ?? []).map(({ expr }) => expr);

  it('leaves the choice of the data source to whoever imports it', () => {
    expect(dashboard.templating.list[0]).toMatchObject({ name: 'datasource', type: 'datasource', query: 'prometheus' }); // prettier-ignore
    const uids: unknown[] = [];
    JSON.parse(text, (name, value: unknown) => {
      if (name === 'datasource') uids.push(value);
      return value;
    });
    expect(uids.length).toBeGreaterThan(20);
    for (const uid of uids) expect(uid).toEqual({ type: 'prometheus', uid: '${datasource}' });
    expect(dashboard.id).toBeNull();
  });

  it('names only metrics and labels that somebody exports', () => {
    expect(expressions.length).toBeGreaterThan(15);
    for (const expression of expressions) checkExpression(expression);
    for (const { definition } of dashboard.templating.list.slice(1))
      expect(definition).toMatch(/^label_values\(mistletoe_spec_steps_total, (?:model|route)\)$/);
  });

  it('shows every metric of the guard', () => {
    const shown = new Set(expressions.flatMap((expression) => readExpression(expression).metrics));
    expect(ours.other.filter((name) => !shown.has(name))).toEqual([]);
    expect(shown).toContain('mistletoe_request_accepted_length_bucket');
  });

  it('has panels that say what they show and do not overlap', () => {
    const cells = new Set<string>();
    expect(new Set(dashboard.panels.map(({ id }) => id)).size).toBe(dashboard.panels.length);
    for (const { type, title, description, gridPos } of dashboard.panels) {
      if (type !== 'row') expect(description, title).toMatch(/\.$/);
      expect(gridPos.x + gridPos.w).toBeLessThanOrEqual(24);
      for (let x = gridPos.x; x < gridPos.x + gridPos.w; x++)
        for (let y = gridPos.y; y < gridPos.y + gridPos.h; y++) {
          expect(cells.has(`${x} ${y}`), title).toBe(false);
          cells.add(`${x} ${y}`);
        }
    }
  });
});

describe('the alert rules', () => {
  const { groups } = parse(read('alerts.yaml')) as {
    groups: { name: string; rules: { alert: string; expr: string; for?: string; labels: { severity: string }; annotations: { summary: string; description: string } }[] }[]; // prettier-ignore
  };
  const rules = groups.flatMap((group) => group.rules);

  it('cover a collapse, alerts, lost telemetry and a guard that is gone', () => {
    expect(rules.map(({ alert }) => alert)).toEqual([
      'MistletoeModelCollapsed',
      'MistletoeDrafterDown',
      'MistletoeTenantAlerts',
      'MistletoeTelemetryLost',
      'MistletoeUnattributedDrafts',
      'MistletoeStateDisconnected',
      'MistletoeGuardDown',
      'MistletoeEngineAcceptanceHalved',
    ]);
  });

  it.each(rules.map((rule) => [rule.alert, rule] as const))(
    '%s names only what is exported, and says what to do',
    (_, rule) => {
      checkExpression(rule.expr);
      expect(rule.for ?? '1m').toMatch(/^\d+[smh]$/);
      expect(['warning', 'critical']).toContain(rule.labels.severity);
      expect(rule.annotations.description).toMatch(/[.?]$/);
      const used = [...JSON.stringify(rule.annotations).matchAll(/\$labels\.(\w+)/g)].map(
        ([, name]) => name!,
      );
      const given = readExpression(rule.expr).labels;
      expect(used.filter((name) => !given.includes(name))).toEqual([]);
    },
  );
});
