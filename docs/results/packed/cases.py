import random, math, json
def uni(seed,n,a,b): r=random.Random(seed); return [r.randint(a,b) for _ in range(n)]
def logn(seed,n,target):
    r=random.Random(seed); x=[min(512,max(4,int(r.lognormvariate(4.65,0.75)))) for _ in range(n)]
    return x
CASES={"u32-512":(12,uni(1,64,32,512)),"u8-128":(12,uni(2,256,8,128)),"64x512":(12,[512]*64),"u384-512":(16,uni(3,64,384,512)),"ln64":(12,logn(4,64,8901)),"ln256":(12,logn(5,256,34623))}
if __name__=="__main__":
    for k,(h,l) in CASES.items(): print(k,h,len(l),sum(l),max(l))
