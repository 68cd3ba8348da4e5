/** Colours by meaning, for light and dark. One accent; the attack is the only other strong colour on the page. */
type Theme = Readonly<Record<string, string>>;

const light: Theme = {
  page: '#fbfbf9',
  card: '#ffffff',
  ink: '#1d2421',
  soft: '#5b6661',
  faint: '#8a948f',
  line: '#e2e6e1',
  accent: '#17705f',
  'accent-wash': '#dcefe8',
  attack: '#c2410c',
  'attack-wash': '#fbe7dc',
  amber: '#a16207',
  'amber-wash': '#fbf0d5',
  'grey-wash': '#eef0ee',
  heat: '194, 65, 12',
};

const dark: Theme = {
  page: '#121614',
  card: '#191f1c',
  ink: '#e6ebe7',
  soft: '#a7b3ad',
  faint: '#7b8781',
  line: '#2c3531',
  accent: '#5cc5ab',
  'accent-wash': '#1c3d35',
  attack: '#fb8f5e',
  'attack-wash': '#3d241a',
  amber: '#e5b454',
  'amber-wash': '#3f3217',
  'grey-wash': '#262d2a',
  heat: '251, 143, 94',
};

const declare = (theme: Theme): string =>
  Object.entries(theme)
    .map(([name, value]) => `--${name}:${value};`)
    .join('');

/** The system's choice unless the reader made another; paper is always light. */
export const themeStyle = `
:root{color-scheme:light;${declare(light)}}
@media (prefers-color-scheme:dark){:root:not([data-theme=light]){color-scheme:dark;${declare(dark)}}}
:root[data-theme=dark]{color-scheme:dark;${declare(dark)}}
@media print{:root,:root:not([data-theme=light]),:root[data-theme=dark]{color-scheme:light;${declare(light)}}}
`;
