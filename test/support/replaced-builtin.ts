/** A function of a Node module with another one in its place, for the tests of one file. */
import { syncBuiltinESMExports } from 'node:module';
import { afterAll, beforeAll } from 'vitest';

/**
 * `module` is the default export of the Node module. Whoever has imported the function already calls the new one, too:
 * test files share processes, in which most modules are loaded before.
 */
export function replaceBuiltin<Module extends object, Name extends keyof Module>(
  module: Module,
  name: Name,
  replace: (real: Module[Name]) => Module[Name],
): void {
  const real = module[name];
  const put = (value: Module[Name]): void => {
    module[name] = value;
    syncBuiltinESMExports();
  };
  beforeAll(() => {
    put(replace(real));
  });
  afterAll(() => {
    put(real);
  });
}
