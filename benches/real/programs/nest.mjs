// Nest without decorators' syntax: what the compiler would have written.
import 'reflect-metadata';
import { Controller, Get, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';

class Report {
    lines() {
        const lines = [];
        for (let line = 0; line < 300; line += 1) lines.push(this.line(line));
        return lines;
    }

    line(number) { return `${number}:${(number * 2654435761 % 4294967296).toString(36).padStart(8, '0')}`; }
}
Get()(Report.prototype, 'lines', Object.getOwnPropertyDescriptor(Report.prototype, 'lines'));
Controller('report')(Report);

class App {}
Module({ controllers: [Report] })(App);

const app = await NestFactory.create(App, { logger: false });
await app.listen(Number(process.env.PORT));
