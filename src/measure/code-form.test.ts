import { describe, expect, it } from 'vitest';
import { normaliseCode } from './code-form.js';
import { extractCode } from './code-form.js';

const same = (left: string, right: string) => {
  expect(normaliseCode(right)).toBe(normaliseCode(left));
};
const different = (left: string, right: string) => {
  expect(normaliseCode(right)).not.toBe(normaliseCode(left));
};

describe('normaliseCode, Python', () => {
  it('writes one statement a line and one tab a level', () => {
    const code =
      'def f(x):  # twice\n  """Twice x."""\n\n  if x:\n      return {\n        \'a\': 2*x\n      }\n';
    expect(normaliseCode(code)).toBe('def f(x):\n\tif x:\n\t\treturn{"a":2*x}');
    expect(normaliseCode('')).toBe('');
    expect(normaliseCode('# nothing\n\n')).toBe('');
  });

  it.each([
    ['indentation', 'if a:\n    if b:\n        c\nd', 'if a:\n\tif b:\n\t\tc\nd'],
    ['line ends', 'a = 1\r\nb = 2\r\n', 'a = 1\nb = 2'],
    ['a continued line', 'a = b + c', 'a = b + \\\n    c'],
    ['spaces around operators', 'return f(a*b+c)', 'return f( a * b + c )'],
    [
      'docstrings in either quotes',
      'def f():\n    """One\n\n    two."""\n    return 1',
      "def f():\n    '''Other.'''\n    return 1",
    ],
    ['a docstring of one line', 'def f():\n    "One."\n    return 1', 'def f():\n    return 1'],
    ['quotes', "print('a', 'it is', '')", 'print("a", "it is", "")'],
    ['quotes of prefixed strings', "f'{a}' + rb'b'", 'f"{a}" + rb"b"'],
    ['a margin', '    a = 1\n    return a', 'a = 1\nreturn a'],
    ['floor division behind a comment sign', 'a = b // 2  # half', 'a = b // 2'],
  ])('does not see %s', (_, left, right) => {
    same(left, right);
  });

  it.each([
    ['a way to do it', 'return s[::-1]', 'r = ""\nfor c in s:\n    r = c + r\nreturn r'],
    ['a function', 'return max(numbers)', 'return sum(numbers)'],
    ['a name', 'return total', 'return totals'],
    ['a number', 'return 10', 'return 100'],
    ['an operator', 'return a / b', 'return a // b'],
    ['what is divided by', 'return a // b', 'return a // c'],
    ['a comparison', 'while i < n:\n    i += 1', 'while i <= n:\n    i += 1'],
    ['a sign', 'return x', 'return -x'],
    ['a string', "return 'a'", "return 'b'"],
    ['white space in a string', "return 'a b'", "return 'a  b'"],
    ['a hash in a string', "return '#a'", "return '#b'"],
    ['a string and a name', "return 'a'", 'return a'],
    ['an escape', String.raw`return '\n'`, String.raw`return '\\n'`],
    ['a raw string', String.raw`return '\n'`, String.raw`return r'\n'`],
    ['nested quotes', `return "it's"`, `return 'it"s'`],
    ['bytes', "return 'a'", "return b'a'"],
    ['a formatted string that stands alone', "f'{run()}'\na", 'a'],
    ['a string that is returned', 'return """Twice."""', 'return """Once."""'],
    ['order', 'a = 1\nb = 2', 'b = 2\na = 1'],
    ['nesting', 'for i in l:\n    a()\n    b()', 'for i in l:\n    a()\nb()'],
    [
      'an else',
      'for i in l:\n    if i:\n        a()\n    else:\n        b()',
      'for i in l:\n    if i:\n        a()\nelse:\n    b()',
    ],
    ['a tuple of one', 'return (a,)', 'return (a)'],
    ['a tuple of one on its own line', 'x\n(a,) = b', 'x\n(a) = b'],
    ['a tuple of one lambda', 'return (lambda a, b: a,)', 'return (lambda a, b: a)'],
    ['a key that is a tuple', 'return d[a,]', 'return d[a]'],
    ['a tuple without brackets', 'x = a,', 'x = a'],
    ['brackets', 'return (a + b) * c', 'return a + b * c'],
    ['a statement in the same line', 'if a: b; c', 'if a: b\nc'],
    ['case', 'return true', 'return True'],
    ['two words and one', 'not a', 'nota'],
  ])('sees %s', (_, left, right) => {
    different(left, right);
  });

  it.each([
    ['a string', 'print("ab'],
    ['a string behind a backslash', 'print("ab\\'],
    ['a docstring', 'def f():\n    """Twice'],
    ['the quotes of a docstring', 'def f():\n    """Twice"'],
    ['a bracket', 'return [a, (b'],
    ['a continued line', 'a = b + \\'],
    ['a header', 'def f(a'],
  ])('takes code that is cut inside %s', (_, code) => {
    different(code, `${code}c`);
    different(code, '');
  });
});

describe('normaliseCode, braces', () => {
  it('does not see comments, blank lines, spacing and indentation', () => {
    same('int f() {\n  return 2*a;\n}', '/* it\n is */ int f() { // one\n\n    return /* 2 */ 2 * a ;\n}');
  });

  it.each([
    ['a name', 'int f() { return a; }', 'int f() { return b; }'],
    ['an operator', 'if (a && b) { c(); }', 'if (a || b) { c(); }'],
    ['an increment', 'if (a) { b++; }', 'if (a) { b--; }'],
    ['nesting', 'if (a) { b(); c(); }', 'if (a) { b(); } c();'],
    ['an empty body', 'while (a());\nb();\nif (c) {}', 'while (a())\nb();\nif (c) {}'],
    ['an empty place', 'const a = [1,,];', 'const a = [1,];'],
    ['a line that goes on', 'const a = b;\n(c)();', 'const a = b\n(c)();'],
    ['a return that ends', 'function f() { return\n{ a: 1 } }', 'function f() { return { a: 1 } }'],
    ['a character', "char a = 'b';", 'char a = "b";'],
    ['white space in a template', 'const a = `b  ${c}`;', 'const a = `b ${c}`;'],
    [
      'a template in a template',
      'const a = `${b ? `http://c` : ``}`;',
      'const a = `${b ? `http://d` : ``}`;',
    ],
    ['a regular expression', 'const a = b.replace(/[/*]/g, c);', 'const a = b.replace(/[/*]/g, d);'],
    ['a private name', 'class A { f() { return this.#a; } }', 'class A { f() { return this.#b; } }'],
    ['a directive', '#define A 1\nint f() { return A; }', '#define A 2\nint f() { return A; }'],
    ['an address', 'const a = "http://b";', 'const a = "http://c";'],
  ])('sees %s', (_, left, right) => {
    different(left, right);
  });
});

describe('extractCode', () => {
  it.each([
    ['a block', 'Sure:\n```python\nx = 1\n```\nDone.', 'x = 1\n'],
    ['the first of two blocks', '```\na\n```\n```\nb\n```', 'a\n'],
    ['a block behind a space', ' ```python\nx = 1\n```', 'x = 1\n'],
    ['a block of tildes', '~~~\nx\n~~~', 'x\n'],
    ['a block with a fence inside', '````\n```\nx\n```\n````', '```\nx\n```\n'],
    ['a block without its end', '```python\ndef f():\n    ret', 'def f():\n    ret'],
    ['a block that is cut in its end', '```python\nx = 1\n``', 'x = 1\n'],
    ['prose in a block', '```\njust words\n```', 'just words\n'],
    [
      'code before the end of a fence that the prompt began',
      '    return a\n```\nThis is a.',
      '    return a\n',
    ],
  ])('finds %s', (_, answer, code) => {
    expect(extractCode(answer)).toBe(code);
  });

  it.each([
    'def f(x):\n    return x',
    '    return max(numbers)\n',
    'return',
    'return 0',
    '    words = s.split()\n    return len(words)',
    '    for i in range(n):\n        total += i',
    '    if s == "": return 0\n    return 1',
    '    if not isinstance(n, int) or n < 1:\n        raise ValueError("n must be a whole number, not that")',
    'def f(x):\n    """Takes one number and gives back another.\n    That is all it does for you today.\n    """\n    return x',
    'def f(x):\n    """Takes one number and gives back anoth',
    'import math\nprint(math.pi)',
    'from math import pi',
    'class A:\n    pass',
    '#include <iostream>\nusing namespace std;',
    'function f(x) {\n  return x;\n}',
    'const a = 1;',
    'public static void main(String[] args) {',
  ])('takes %j as it is', (code) => {
    expect(extractCode(code)).toBe(code);
  });

  it('survives a fence of any length', () => {
    expect(extractCode('`'.repeat(100_000))).toBeUndefined();
  });

  it.each([
    '',
    '\n  \n',
    'Hawaii has 8 islands.',
    'x = 5\ny = 7',
    'David has 12 - 5 = 7 brothers.\n#### 7',
    'return the book to the library.',
    'return home.',
    'Return the largest number of a list.',
    'for example: apples, pears and plums',
    'if you are not sure about it, ask:\n- a friend\n- a teacher',
    'import duties are high in this country',
    'class starts at 9.',
    'while you wait, with the following in mind:',
    "I don't know. It's hard to say; you'd better ask.",
    'You may write a line like\nreturn x\nbut it will not help you much here.\nPlease ask a person who knows.',
    'Here is the code:\n```pyth',
    '```python\n\n```',
    '1. ⓐ 100\n2. ⓑ 100',
  ])('finds nothing in %j', (answer) => {
    expect(extractCode(answer)).toBeUndefined();
  });

  it('drops the space that a tokenizer puts before the first word', () => {
    const body = '    if len(s) == 0:\n        return 0\n    return 1';
    expect(extractCode(` ${body}`)).toBe(body);
    expect(extractCode(` \n ${body}`)).toBe(` \n${body}`);
    expect(extractCode(body)).toBe(body);
  });
});
