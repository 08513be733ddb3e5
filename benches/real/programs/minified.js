// A bundle of one line: every function has the same line and a column of its own.
function a(n){let s=0;for(let i=0;i<n;i++)s+=i%7;return s}function b(n){let s=1;for(let i=1;i<n;i++)s=s*i%9973;return s}for(const e=Date.now()+4000;Date.now()<e;){a(2e5);b(6e5)}
