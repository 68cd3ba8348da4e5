import { describe, expect, it } from 'vitest';
import { withoutControls } from './terminal.js';

describe('withoutControls', () => {
  it('keeps text, tabs and newlines, and replaces what would steer a terminal', () => {
    expect(withoutControls('naïve\tcafé\n世界 👋')).toBe('naïve\tcafé\n世界 👋');
    expect(withoutControls('a\u001b[2Jb\rc\u009bd\u202ee\u0007')).toBe(
      'a\ufffd[2Jb\ufffdc\ufffdd\ufffde\ufffd',
    );
  });
});
