// Images are scaled in libvips, on the threads of libuv's pool.
const sharp = require('sharp');
const noise = { create: { width: 1600, height: 1200, channels: 3, background: '#888', noise: { type: 'gaussian', mean: 128, sigma: 30 } } };

async function thumbnails() {
    const image = await sharp(noise).png({ compressionLevel: 1 }).toBuffer();
    for (const end = Date.now() + 5000; Date.now() < end;) await sharp(image).resize(400).jpeg().toBuffer();
}

thumbnails();
