import { sortBy } from 'lodash';

// Rendered once, while it is built.
function slowRows() {
  let rows = [];
  for (const end = Date.now() + 2000; Date.now() < end;) {
    rows = sortBy(Array.from({ length: 2000 }, (_, id) => ({ id, key: (id * 7919) % 1000 })), 'key');
  }
  return rows.slice(0, 10);
}

export default function Page() {
  return <ul>{slowRows().map(({ id, key }) => <li key={id}>{key}</li>)}</ul>;
}
