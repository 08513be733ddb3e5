export default { distDir: '../../out/next', outputFileTracingRoot: import.meta.dirname + '/../..', turbopack: { root: import.meta.dirname + '/../..' } };
