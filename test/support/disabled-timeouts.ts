/** For the tests of one file: requests that the product bounds by AbortSignal.timeout may take any time. */
import { afterEach, beforeEach, vi } from 'vitest';

export interface DisabledTimeouts {
  /** Lets every timeout that was set since the test began expire. */
  expire(): void;
}

export function disableTimeouts(): DisabledTimeouts {
  let controllers: AbortController[] = [];
  let restore: () => void;
  beforeEach(() => {
    controllers = [];
    const spy = vi.spyOn(AbortSignal, 'timeout');
    restore = () => {
      spy.mockRestore();
    };
    spy.mockImplementation(() => {
      const controller = new AbortController();
      controllers.push(controller);
      return controller.signal;
    });
  });
  afterEach(() => {
    restore();
  });
  return {
    expire: () => {
      for (const controller of controllers) controller.abort();
    },
  };
}
