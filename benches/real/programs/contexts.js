// Scripts in contexts of their own, as test runners and template engines run them.
const vm = require('node:vm');
const source = `
function renderTemplate(items) {
    let text = '';
    for (const item of items) text += '<li>' + item * 17 % 23 + '</li>';
    return text.length;
}
for (let turn = 0; turn < 400; turn += 1) total += renderTemplate(items);
`;
const script = new vm.Script(source, { filename: 'template.vm.js' });
const items = Array.from({ length: 500 }, (_, item) => item);
for (const end = Date.now() + 4000; Date.now() < end;) script.runInContext(vm.createContext({ items, total: 0 }));
