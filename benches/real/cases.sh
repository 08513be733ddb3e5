# shellcheck shell=bash
# What is recorded, and what its summary must say; sourced by run.sh. Each claim is what the program is known to do.

program tsc node node_modules/typescript/bin/tsc -p programs/tsconfig.json
first_says 'typescript'
says 'typescript · [A-Za-z]+ .*_tsc\.js:[0-9]+'
says 'check(Expression|SourceElement|Node)?[A-Za-z]*|instantiateType|isRelatedTo'
says 'JIT compil'
never_says 'most of it under'

program eslint node node_modules/eslint/bin/eslint.js -c programs/eslint.config.mjs -f json -o /dev/null inputs
first_says 'eslint'
says 'eslint · '

program prettier node node_modules/prettier/bin/prettier.cjs --check inputs
first_says 'prettier'
says 'prettier · '

# The minifier runs in a worker thread or a process of its own.
program webpack node node_modules/webpack/bin/webpack.js -c programs/webpack.config.js
first_says 'terser'
says 'webpack|terser-webpack-plugin'
never_says 'waits for something else than the CPU'

# Most of a build is rolldown, an addon without symbols.
program vite node node_modules/vite/bin/vite.js build programs --logLevel warn
says 'rolldown.*\.node'

# Most of a build is Turbopack, an addon without symbols, on threads of its own; the page is rendered in a child.
program next env NEXT_TELEMETRY_DISABLED=1 node node_modules/next/dist/bin/next build programs/next
first_says 'next-swc.*\.node'
says 'next-swc.*no symbols'
says 'next · '
says 'page\.js:[0-9]+'

# The bundler is a program in Go, without symbols.
program esbuild node programs/esbuild.js
first_says 'Native code of esbuild'
says 'esbuild · '
says '(runtime\.|esbuild/internal)[^ ]* +esbuild'

program jest node node_modules/jest/bin/jest.js --rootDir programs
first_says 'slowSum'
says 'slowSum .*sum\.test\.js:[0-9]+'

program vitest node node_modules/vitest/vitest.mjs run --root programs --globals
first_says 'slowSum'
says 'slowSum .*sum\.test\.js:[0-9]+'

program npm npm ls --all
says 'npm'

server fastify /rows node programs/fastify.js
first_says 'byName|sortedRows'
says 'byName .*fastify\.js:[0-9]+'

server koa / node programs/koa.js
first_says 'fibonacci'
says 'fibonacci .*koa\.js:5'

server express /login node programs/express.js
first_says '(crypto|pbkdf2).*passwordHash|passwordHash.*(crypto|pbkdf2)'
says 'passwordHash .*express\.js:[0-9]+'

server nest /report node programs/nest.mjs
says '(line|lines) .*nest\.mjs:[0-9]+'

program cluster node programs/cluster.js
first_says 'work'
says 'work .*cluster\.js:[0-9]+'

program fork node programs/fork.js
first_says 'collatz'
says 'collatz .*fork\.js:[0-9]+'
never_says 'sibling'

program piscina node programs/piscina.js
first_says 'primesBelow'
says 'primesBelow .*piscina\.js:[0-9]+'
never_says 'waits for something else than the CPU'

program workers node programs/workers.js
first_says 'spin'
says 'spin .*workers\.js:[0-9]+'

program stripped node programs/stripped.ts
first_says 'product|stripped\.ts'
says 'stripped\.ts:(9|10)'

program contexts node programs/contexts.js
says 'renderTemplate .*template\.vm\.js:2'

program sqlite node programs/sqlite.js
first_says 'sqlite|totalOf'
says 'totalOf .*sqlite\.js:[0-9]+'

program better-sqlite3 node programs/better-sqlite3.js
first_says 'totalOf .*sqlite3VdbeExec|native module .*\.node'
says 'totalOf .*better-sqlite3\.js:[0-9]+'
says 'better-sqlite3 · '

program bcrypt node programs/bcrypt.js
first_says 'bcrypt.*\.node'
says 'checkPassword .*bcrypt\.js:[0-9]+'

program sharp node programs/sharp.js
first_says 'libvips'
says 'libvips.*no symbols'

program heap node programs/heap.js
first_says 'GC|[Gg]arbage'
says 'allocate .*heap\.js:[0-9]+'

program minified node programs/app.min.js
says 'b .*app\.min\.js:2:[0-9]+'
