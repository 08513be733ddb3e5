module.exports = {
    mode: 'production',
    entry: './programs/bundle.js',
    output: { path: `${__dirname}/../out/webpack` },
    performance: false,
    cache: false,
};
