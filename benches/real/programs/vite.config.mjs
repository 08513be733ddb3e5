export default {
    build: { lib: { entry: 'bundle.js', formats: ['es'], fileName: 'bundle' }, outDir: '../out/vite', minify: true, emptyOutDir: true },
};
