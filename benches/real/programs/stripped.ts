// TypeScript that node runs by stripping its types: lines and columns are those of this file.
type Matrix = number[][];

function identity(size: number): Matrix {
    return Array.from({ length: size }, (_, row) => Array.from({ length: size }, (_, column) => Number(row === column)));
}

function product(left: Matrix, right: Matrix): Matrix {
    return left.map((row: number[]) => right[0].map((_: number, column: number) => {
        let sum: number = 0;
        for (let index = 0; index < row.length; index += 1) sum += row[index] * right[index][column];
        return sum;
    }));
}

let matrix: Matrix = identity(120);
for (const end = Date.now() + 4000; Date.now() < end;) matrix = product(matrix, matrix);
