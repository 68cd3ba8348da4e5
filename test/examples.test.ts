/** The Docker, systemd and Kubernetes examples parse, and name flags, settings, ports and paths that exist. */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { guard } from '../src/cli/guard/guard.js';
import { longName, type FlagTable } from '../src/cli/flags.js';
import { worker } from '../src/cli/audit/worker.js';
import { configureGuard, readConfiguration } from '../src/guard/config-file.js';

const read = (path: string): string =>
  readFileSync(resolve(import.meta.dirname, '../examples', path), 'utf8');

const readYaml = (path: string): Resource[] =>
  parseAllDocuments(read(path)).map((document) => {
    expect(document.errors).toEqual([]);
    return document.toJS() as Resource;
  });

interface Container {
  readonly args?: readonly string[];
  readonly ports?: readonly { readonly name: string; readonly containerPort: number }[];
  readonly [probe: `${string}Probe`]: { readonly httpGet: { readonly path: string; readonly port: string } };
}

interface Resource {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly labels?: Readonly<Record<string, string>> };
  readonly data?: Readonly<Record<string, string>>;
  readonly services?: Readonly<Record<string, { readonly command?: readonly string[] }>>;
  readonly spec: {
    readonly template?: { readonly spec: { readonly containers: readonly Container[] } };
    readonly ports?: readonly { readonly port: number; readonly targetPort: string }[];
    readonly selector?: { readonly matchLabels: Readonly<Record<string, string>> };
    readonly endpoints?: readonly { readonly port: string; readonly path: string }[];
    readonly groups?: unknown;
  };
}

const flagsOf = (table: FlagTable): string[] =>
  Object.entries(table).map(([name, entry]) => `--${longName(name, entry)}`);
const flagsIn = (words: readonly string[]): string[] => words.filter((word) => word.startsWith('--'));

describe('the guard’s examples', () => {
  const resources = readYaml('guard/kubernetes/guard.yaml');
  const find = (kind: string): Resource => resources.find((each) => each.kind === kind)!;
  const [container] = find('Deployment').spec.template!.spec.containers;
  const settings = readConfiguration({
    file: { name: 'guard.yaml', text: find('ConfigMap').data!['guard.yaml']! },
  });
  const defaults = configureGuard({ upstream: 'http://127.0.0.1:8000' });

  it.each(['guard/Dockerfile', 'guard/mistletoe-guard.service'])('%s uses flags that exist', (path) => {
    const [command = ''] = /^(?:ENTRYPOINT|ExecStart=).*$/m.exec(read(path)) ?? [];
    const given = command.match(/--[a-z-]+/g) ?? [];
    expect(given.length).toBeGreaterThan(0);
    expect(flagsOf(guard.flags)).toEqual(expect.arrayContaining(given));
  });

  it('publish the default ports and the health path', () => {
    const docker = read('guard/Dockerfile');
    expect(docker).toContain(`EXPOSE ${defaults.port} ${defaults.operator.port}\n`);
    expect(docker).toContain(`http://127.0.0.1:${defaults.operator.port}/mistletoe/health`);
  });

  it('run in Kubernetes with valid settings and flags, on the ports that the services name', () => {
    expect(flagsOf(guard.flags)).toEqual(expect.arrayContaining(flagsIn(container!.args!)));
    const ports = Object.fromEntries(
      container!.ports!.map(({ name, containerPort }) => [name, containerPort]),
    );
    expect(ports).toEqual({ http: settings.port, operator: settings.operator.port });
    for (const service of resources.filter(({ kind }) => kind === 'Service'))
      for (const { targetPort } of service.spec.ports!) expect(Object.keys(ports)).toContain(targetPort);
    for (const name of ['readinessProbe', 'livenessProbe'] as const)
      expect(container![name]?.httpGet).toEqual({ path: '/mistletoe/health', port: 'operator' });
  });

  it('monitor the operator service with the alert rules of examples/grafana', () => {
    const [monitor, rules] = readYaml('guard/kubernetes/monitoring.yaml');
    const labels = resources.map(({ metadata }) => metadata.labels?.app);
    expect(labels).toContain(monitor!.spec.selector!.matchLabels.app);
    expect(monitor!.spec.endpoints).toMatchObject([{ port: 'operator', path: '/mistletoe/metrics' }]);
    const [grafana] = readYaml('grafana/alerts.yaml') as unknown as [{ readonly groups: unknown }];
    expect(rules!.spec.groups).toEqual(grafana.groups);
  });
});

describe('the fleet’s examples', () => {
  it.each([
    ['fleet/compose.yaml', (file: Resource) => file.services!.worker!.command!],
    ['fleet/kubernetes.yaml', (file: Resource) => file.spec.template!.spec.containers[0]!.args!],
  ])('%s uses flags that exist', (path, argsOf) => {
    const given = flagsIn(argsOf(readYaml(path)[0]!));
    expect(given.length).toBeGreaterThan(0);
    expect(flagsOf(worker.flags)).toEqual(expect.arrayContaining(given));
  });
});
